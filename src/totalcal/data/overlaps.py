"""Classes that stand in two sets: a detector that takes them for in-domain is not wrong.

CIFAR-10 and CIFAR-100 were made without a class in common; TinyImageNet shares some with either.
"""

from collections.abc import Mapping
from types import MappingProxyType

Overlap = Mapping[str, tuple[str, ...]]  # in-domain class → classes of the other set

CIFAR10_IN_TINY_IMAGENET: Overlap = MappingProxyType(
    {
        "automobile": (
            "n02814533",
            "n03100240",
            "n03670208",
            "n04285008",
        ),  # wagon, convertible, limousine, sports
        "bird": ("n01855672", "n02002724", "n02056570", "n02058221"),  # goose, stork, king penguin, albatross
        "cat": ("n02123045", "n02123394", "n02124075"),  # tabby, Persian, Egyptian
        "dog": ("n02085620", "n02094433", "n02099601", "n02099712", "n02106662", "n02113799"),  # six breeds
        "frog": ("n01641577", "n01644900"),  # bullfrog, tailed frog
        "ship": ("n03662601",),  # lifeboat
        "truck": ("n03796401",),  # moving van
    }
)

CIFAR100_IN_TINY_IMAGENET: Overlap = MappingProxyType(
    {
        "aquarium_fish": ("n01443537",),  # goldfish
        "bear": ("n02132136",),  # brown bear
        "bee": ("n02206856",),
        "beetle": ("n02165456",),  # ladybird
        "bottle": ("n02823428", "n03983396"),  # beer bottle, pop bottle
        "bridge": ("n04311004", "n04366367", "n04532670"),  # steel arch, suspension, viaduct
        "bus": ("n04146614", "n04487081"),  # school bus, trolleybus
        "butterfly": ("n02279972", "n02281406"),  # monarch, sulphur
        "camel": ("n02437312",),  # Arabian camel
        "cattle": ("n02403003",),  # ox
        "chair": ("n04099969",),  # rocking chair
        "chimpanzee": ("n02481823",),
        "cockroach": ("n02233338",),
        "elephant": ("n02504458",),  # African elephant
        "keyboard": ("n03085013",),  # computer keyboard
        "lawn_mower": ("n03649909",),
        "lion": ("n02129165",),
        "lobster": ("n01983481", "n01984695"),  # American, spiny
        "mountain": ("n09193705",),  # alp
        "mushroom": ("n07734744",),
        "orange": ("n07747607",),
        "plate": ("n07579787",),
        "sea": ("n09428293",),  # seashore
        "snail": ("n01944390",),
        "snake": ("n01742172",),  # boa constrictor
        "spider": ("n01774384", "n01774750"),  # black widow, tarantula
        "sweet_pepper": ("n07720875",),  # bell pepper
        "table": ("n03201208",),  # dining table
        "telephone": ("n03902125",),  # pay-phone
        "tractor": ("n04465501",),
        "train": ("n02917067",),  # bullet train
    }
)
