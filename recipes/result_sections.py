"""The sections of docs/results.md: which stored run each shows, and what is said of it."""

from __future__ import annotations

from dataclasses import dataclass

FILTERS = (
    ("pl", "selected"),
    ("shot", "confident"),
    ("eata", "reliable"),
    ("eata", "selected"),
    ("sar", "reliable"),
)
"""Methods that choose among images, and what they call the chosen."""

PURE = (
    "Each corruption by itself, the method reset before it, published settings but for MITA, whose settings were found"
    " on other corruptions, and TEA, which has MITA's single Langevin step, taken in the pass of the update (20 steps"
    " in passes of their own, as published, cost nine times as much; the section *To the letter* has both). EATA has"
    " no Fisher images here and is ETA. MEMO has a table of its own, below. The paper's numbers are in brackets; it"
    " has none for PL, T3A, LAME and DUA."
)

TUNED = "_tuned"
"""How the labels of tuned settings end where others have their defaults."""


@dataclass(frozen=True)
class Section:
    """One stored run and what to say of it."""

    name: str
    title: str
    about: str
    verdict: str  # in words, to be read again whenever runs are added
    images: int = 10_000  # of each stream
    beside: str = ""  # another stored run whose rows come first
    rows: tuple[str, ...] = ()  # labels to show; all if left out
    streams: tuple[str, ...] = ()  # likewise
    ranked: bool = False  # say how MITA stands against the best other method
    brief: bool = False  # one table, the paper's numbers in brackets
    until: str = ""  # the section that takes its place once its run is finished
    shares: tuple[tuple[str, str], ...] = ()  # methods and what they count, as a share of all images
    costs: bool = False  # say what a batch costs

    @property
    def runs(self) -> list[str]:
        """The stored runs whose rows it has."""
        return [name for name in (self.beside, self.name) if name]

    @property
    def commands(self) -> str:
        """What runs it again, as code in Markdown."""
        return "".join(
            f"    midway run docs/results/{name}.toml --jobs 2 --out docs/results/{name}\n" for name in self.runs
        )


SECTIONS = (
    Section(
        "pure",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA comes next. MITA's lead over"
        " `tea` is no smaller than there; what both gain over BN and TENT is. But most of that lead is a matter of"
        " updates: MITA's two models take two a batch, `tea` takes one, and `tea_equal_budget`, which takes two, is"
        " behind MITA on noise and, by little, ahead of it on six of the fifteen. Where the contrast is low, or little"
        " is wrong with the images as under brightness, MITA is below BN: it moves what need not move. T3A and LAME"
        " keep the statistics of the source and so its errors; LAME falls below it, for it expects a batch to hold few"
        " classes, and these are shuffled.",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "defaults",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA comes next; the distances are"
        " smaller than the paper's, for ten batches are few to whoever moves weights. T3A and LAME keep the statistics"
        " of the source and so its errors; LAME falls below it, for it expects a batch to hold few classes, and these"
        " are shuffled.",
        images=2000,
        until="pure",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "tuned",
        "Tuned settings on fifteen corruptions",
        "The same with the settings that a search found for each method, with as many trials for each, on other"
        " corruptions ([tuning.md](tuning.md)). MEMO was not searched.",
        "MITA has the highest mean, but the lead over TEA that it has with the default settings is gone: with as"
        " many trials for both they are level, each ahead on about half of the corruptions. Both stay above the"
        " methods that minimise entropy.",
        images=2000,
        ranked=True,
        brief=True,
    ),
    Section(
        "memo",
        "MEMO",
        "MEMO adapts to every image by itself, 32 views of it, and takes as long for one image as TENT for some fifty,"
        " so it has fewer images than the other methods. Source on the same images.",
        "MEMO gains on thirteen of the fifteen, most on noise, without seeing any other image, and loses a little under"
        " elastic transform and pixelate. The gain that the MITA paper has for it is larger, as large as statistics of"
        " a whole batch would bring, but image by image, as MEMO is published, there are none.",
        images=1000,
        brief=True,
    ),
    Section(
        "outlier",
        "Outliers",
        "One image in 200 is of the first corruption of a pair, the others of the second: the six pairs of the"
        " paper. With so few outliers, ten a pair, one of them is ten points; the means are over sixty. All methods"
        " have tuned settings ([tuning.md](tuning.md)), for which streams are as short as those of the search; MEMO,"
        " which the paper has here, and on two of the six kinds of outliers above MITA, is left out for its cost.",
        "On all images of a stream MITA has the highest mean, and on the outliers none is above it in the mean. But"
        " with glass blur, pixelate and elastic transform, where batch statistics drag the outliers below the"
        " unadapted Source or to its level, MITA does not lift them above it; in the paper it does. An outlier is"
        " normalised by the batch it is in before its energy is followed. Kindred statistics, below, are about that.",
        images=2000,
        brief=True,
        ranked=True,
    ),
    Section(
        "mixture",
        "Mixtures",
        "Half of the images are of one corruption of a pair, half of the other. All methods have tuned settings; MEMO"
        " is left out for its cost.",
        "MITA has the highest mean, as in the paper, but by less: with one seed and ten batches the lead is none to"
        " rely on.",
        images=2000,
        brief=True,
        ranked=True,
    ),
    Section(
        "sweep",
        "From a rare outlier to half and half",
        "The share of the first corruption of a pair grows from one image in 200 to half of all, in two of the paper's"
        " six pairs; the paper's sweep has SAR and SHOT as well, and TEA at the two ends only. All methods have tuned"
        " settings.",
        "With one image in 200 an outlier counts ten points, so only the large distances say something. Defocus blur"
        " among zoom blur, two kinds alike, is far above Source at every share, whatever the method. Glass blur among"
        " gaussian noise falls below Source or to its level until half of the stream is of it; on these images no"
        " method is ahead of the others by more than a few images, where the paper has MITA ahead at every share. On"
        " the whole stream MITA leads in the first pair at every share but the last, where TEA draws level; in the"
        " second all that adapt are within about a point.",
        images=2000,
        brief=True,
    ),
    Section(
        "mita",
        "MITA, its parts and its rivals",
        "Default settings. `tea` takes one update a batch; `tea_equal_budget` takes two, as many as the two models"
        " of MITA together. All have one Langevin step, in the pass of the update. A seed of which the store has some"
        " rows only is not shown. `mita_without_model` moves the images down the source's energy and lets the source"
        " answer; `mita_same` moves them down the predictor's own energy; `mita` down that of a second model which is"
        " adapted further.",
        "The order of the paper's ablation comes out on every stream as a whole: MITA above the same model above TEA,"
        " and MITA above TEA with as many updates, which explain more than half of its lead over TEA. In the paper the"
        " data model differs from the same model by more steps, here by larger ones. Without model adaptation, moved"
        " images cost the source a little in the mixture, glass blur most, and bring it a little elsewhere; in the"
        " paper next to nothing changes. What does not come out is the paper's claim for outliers: every method that"
        " uses batch statistics falls below the unadapted Source on them, MITA too, where the paper has MITA far above"
        " Source; they are few, one in 200 images, and differences between methods are within the spread over seeds."
        " The sections on kindred statistics have part of the reason, and something that helps.",
        ranked=True,
    ),
    Section(
        "tuned_long",
        "Tuned settings on a long stream",
        "The settings that were found on streams of ten batches ([tuning.md](tuning.md)), here on fifty.",
        "TENT keeps what the search gained it. TEA and MITA do not: over the first batches the tuned settings are"
        " above the defaults, as in the search, then accuracy falls until the end, while with the defaults it ends"
        " higher than it began (`batch_accuracies` in the store). Steps that get far in ten batches go too far in"
        " fifty. So the cautious settings stay MITA's defaults, and the tuned ones are for streams as short as those"
        " they were found on.",
        beside="mita",
        rows=("source", *(f"{name}{ending}" for name in ("tent", "tea", "mita") for ending in ("", TUNED))),
        streams=("pure:gaussian_noise",),
        brief=True,
    ),
    Section(
        "ablation",
        "Ablation",
        "The pair of the paper's ablation, default settings. `mita_without_data` is TEA; `tea_equal_budget` takes as"
        " many updates as the two models of MITA together.",
        "MITA is above `mita_same`, and `mita_same` above `mita_without_data` as in the paper, but by little and on"
        " two of the four streams; data adaptation alone brings about a point, where the paper has none. Two updates a"
        " batch do not explain MITA's lead: TEA with as many is below it on all four.",
        images=2000,
        brief=True,
    ),
    Section(
        "letter",
        "To the letter",
        "What Midway's MITA changes. `mita_published` is the paper's: the data model takes four steps at the"
        " predictor's rate where `mita` takes one at three times that rate, images move pixel by pixel, and every"
        " Langevin step has a pass of its own; `tea_published` has 20 Langevin steps. `mita_noise` and `tea_noise`"
        " have none at all: uniform noise stands for samples of the model. `mita`, `tea` (here `mita_without_data`)"
        " and `tea_equal_budget` are the rows of the ablation above.",
        "On these noises the letter is level with the defaults or a little above, for three times their passes; where"
        " contrast is low it fails ([methods.md](methods.md), *Images that drown in their own adaptation*). What stands"
        " for samples of the model hardly matters: plain noise, one Langevin step or twenty are within half a point, in"
        " TEA and in MITA. What the energy of the test images is held against can be noise, on streams as short as"
        " these; more steps buy next to nothing here.",
        beside="ablation",
        rows=(
            "source",
            "tea_noise",
            "mita_without_data",
            "tea_equal_budget",
            "tea_published",
            "mita_noise",
            "mita",
            "mita_published",
        ),
        streams=(
            "pure:gaussian_noise",
            "outlier:impulse_noise/gaussian_noise@0.005",
            "mixture:impulse_noise/gaussian_noise@0.5",
        ),
        images=2000,
        brief=True,
    ),
    Section(
        "kindred_tuning",
        "Kindred statistics: where they were found",
        "Part of what holds methods back on outliers and mixtures are the statistics of the batch: an image is"
        ' normalised by strangers. With `statistics="kindred"`, which the paper does not have, each image is normalised'
        " by those of its batch that are like it, and by the source where there are few ([methods.md](methods.md))."
        " These are the corruptions on which the constants were chosen, twenty outliers a stream; no weight moves.",
        "Where the two kinds are far apart (blur and noise), mixtures gain much, and the outliers rise from below"
        " the unadapted Source to far above it, for little of the rest. Where they are near, nothing changes.",
        images=4000,
        brief=True,
    ),
    Section(
        "kindred_pairs",
        "Kindred statistics: the paper's pairs",
        "The same on the pairs of the paper, whose corruptions the choice of constants never saw; 50 outliers a"
        " stream.",
        "In mixtures they gain, or change nothing. Of the three kinds of outliers that batch statistics drag below"
        " Source, two are brought about half of the way back and none above it: in these pairs an outlier is not"
        " always told apart. The rest of a stream is as it was.",
        brief=True,
    ),
    Section(
        "kindred",
        "Kindred statistics under other methods",
        "The methods of the section on MITA and its rivals, with and without them; MITA without them only, for its"
        " cost. Default settings.",
        "What BN gains by them, the methods that move weights gain as well: TEA with them is above MITA without them"
        " in the mixture. On the outliers all gain and none reaches Source. A pure stream is as it was.",
        beside="mita",
        rows=(
            "source",
            *(f"{name}{ending}" for name in ("bn", "tent", "tea_equal_budget") for ending in ("", "_kindred")),
            "mita",
        ),
        brief=True,
    ),
    Section(
        "cifar100",
        "CIFAR-100",
        "A ResNet-56 (0.9 million weights, 72.6 % on clean images) on corrupted CIFAR-100; the paper's"
        " network is another. The images are the first of the test set in an order shuffled once, and the weights are"
        " public ones (the head of the plan says where both go). Settings as in the first table; MEMO is left out for"
        " its cost.",
        "With default settings MITA and TEA are level, and ahead of those that minimise entropy by little: five"
        " batches are few. The settings tuned on CIFAR-10 carry over to this other network and its hundred classes:"
        " with them MITA has the highest mean, as in the paper, and TEA comes next. Under JPEG compression batch"
        " statistics alone cost more than they bring.",
        images=1000,
        brief=True,
        shares=FILTERS,
        ranked=True,
    ),
    Section(
        "imagenet",
        "ImageNet size",
        "EfficientNet-lite0 (4.7 million weights, 224 pixels) on ImageNet validation images, one a class, in batches"
        " of 50. The same code as for CIFAR, settings chosen by the number of classes and the size of the images. The"
        " paper has no such table. MEMO has one of its own, below.",
        "Two batches are so few that the columns of those that answer before they adapt are nearly BN's: TENT and"
        " SHOT have taken one small step when they answer the second, and the filters of PL, EATA and SAR let next to"
        " nothing pass but under fog: with statistics of so few images, at this severity, hardly an answer is"
        " certain. TEA and MITA, which answer after their update, are a little below BN. Batch statistics help"
        " against noise, blur and fog, and harm where JPEG compression had done little.",
        images=100,
        brief=True,
        shares=FILTERS,
    ),
    Section(
        "imagenet_memo",
        "ImageNet size: MEMO",
        "The same network and corruptions, 64 views of each image as published, on few images. Source on the same"
        " images.",
        "It runs as it is. So few images say no more: one of them is six points.",
        images=16,
        brief=True,
    ),
    Section(
        "pacs",
        "Domain shift: PACS",
        "EfficientNet-lite0, fine-tuned on photos (recipes/finetune_pacs.py) and tested on the other three domains, 60"
        " images a class at 128 pixels, in batches of 60. The published set has more images: with them the command"
        " gives other numbers.",
        "Batch statistics bring most of what there is to gain, and model adaptation, in TEA, a little more. MITA"
        " does not lead here: TEA is MITA without data adaptation and is above it in all three domains, most of all"
        " on sketches. A drawing is no photo with something on it that a small move of the image could take away. The"
        " settings tuned on CIFAR-10 help both, and MITA stays below BN. With 420 images, four of them are a point.",
        images=420,
        brief=True,
        shares=FILTERS,
    ),
)
