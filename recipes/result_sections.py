"""The sections of docs/results.md: the stored run that each shows, and the text around its tables."""

from __future__ import annotations

from dataclasses import dataclass

FILTERS = (
    ("pl", "selected"),
    ("shot", "confident"),
    ("eata", "reliable"),
    ("eata", "selected"),
    ("sar", "reliable"),
)
"""Methods that select images, and the names of their counts of selected images."""

PURE = (
    "Each corruption by itself; the method is reset before it. Settings are the defaults; those of PL, SHOT, LAME, DUA"
    " and SAR are not quite the published ones ([methods.md](methods.md)). MITA is the form with two models and one"
    " step each, chosen on other corruptions, not the present default of three passes, which the section *MITA, its"
    " parts and its rivals* has beside it. TEA has MITA's single Langevin step, computed in the pass of the update (20"
    " steps in passes of their own, as published, cost nine times as much; the section *As published* has both). EATA"
    " has no Fisher images and is therefore ETA. MEMO has its own table below. The paper's numbers are in brackets; it"
    " has none for PL, T3A, LAME and DUA."
)

TUNED = "_tuned"
"""The suffix of labels with tuned settings where other labels have default settings."""


TWO_MODELS = "mita_two_models"
"""The label of MITA with two models, no rival of its default with one."""


@dataclass(frozen=True)
class Section:
    """One stored run and the text about it.

    Attributes:
        name: Name of the run.
        title: The heading.
        about: The text before the tables.
        verdict: The text after the tables; to be checked whenever results are added.
        images: Number of images of each stream.
        beside: Another stored run whose rows come first.
        rows: Labels to show; all if empty.
        streams: Scenarios to show; all if empty.
        ranked: Compare MITA with the best other method.
        brief: Write one table, with the paper's numbers in brackets.
        until: The section that replaces this one once its run is finished.
        shares: Methods and their counts to show as shares of all images.
        costs: Show the cost of a batch.
    """

    name: str
    title: str
    about: str
    verdict: str
    images: int = 10_000
    beside: str = ""
    rows: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()
    ranked: bool = False
    brief: bool = False
    until: str = ""
    shares: tuple[tuple[str, str], ...] = ()
    costs: bool = False

    @property
    def runs(self) -> list[str]:
        """The stored runs that it shows."""
        return [name for name in (self.beside, self.name) if name]

    @property
    def commands(self) -> str:
        """The commands that repeat it, as code in Markdown."""
        return "".join(
            f"    midway run docs/results/{name}.toml --jobs 2 --out docs/results/{name}\n" for name in self.runs
        )


SECTIONS = (
    Section(
        "pure",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA is second. MITA's lead over"
        " `tea` is no smaller than in the paper; the gain of both over BN and TENT is smaller. Most of that lead is due"
        " to the number of updates: the two models of MITA take two a batch, `tea` takes one, and `tea_equal_budget`,"
        " which takes two, is behind MITA on noise and slightly ahead of it on six of the fifteen corruptions. MITA is"
        " below BN where the contrast is low or the corruption is weak, as for brightness: it changes images that need"
        " no change. T3A and LAME use the statistics of the source and make its errors; LAME falls below the source,"
        " because it assumes that a batch contains few classes, and these batches are shuffled.",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "defaults",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA is second; the differences are"
        " smaller than the paper's, because ten batches are few for methods that update weights. T3A and LAME use the"
        " statistics of the source and make its errors; LAME falls below the source, because it assumes that a batch"
        " contains few classes, and these batches are shuffled.",
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
        "The same with the settings that a search with an equal number of trials chose for each method, on other"
        " corruptions ([tuning.md](tuning.md)). MEMO was not searched.",
        "MITA has the highest mean, but not the lead over TEA that it has with default settings: with an equal number"
        " of trials the two are level, each ahead on about half of the corruptions. Both stay above the methods that"
        " minimise entropy.",
        images=2000,
        ranked=True,
        brief=True,
    ),
    Section(
        "memo",
        "MEMO",
        "MEMO adapts to every image separately, with 32 views of it. One image takes it as long as about fifty images"
        " take TENT, so it has fewer images than the other methods. Source has the same images.",
        "MEMO gains on thirteen of the fifteen corruptions, most on noise, without any other image, and loses slightly"
        " under elastic transform and pixelate. The MITA paper reports a larger gain for it, as large as batch"
        " statistics give; MEMO as published adapts to single images, which have no batch statistics.",
        images=1000,
        brief=True,
    ),
    Section(
        "ttt",
        "TTT",
        "TTT needs a network that was trained with a rotation head, so it has a Source column of its own: the embedded"
        " network with GroupNorm and such a head (90.44 % on clean images, [methods.md](methods.md)). This is"
        " TTT-Online: one step on the four rotations of each image before it is predicted, from the weights that the"
        " images before have left. It adapts to one image at a time, with five forward and four backward passes each,"
        " and has few images: two of them are a point. The paper has no numbers for TTT; those of Source in brackets"
        " are"
        " of its network.",
        "TTT gains much where this network is weakest (noise, pixelate) and is above Source on nine of the fifteen"
        " corruptions; it loses on four, by far the most on motion blur. The step is the published one. A step three"
        " times as large, which the tuning corruptions cannot tell from it, was tried first on half as many images,"
        " with"
        " weights of an earlier training: it gained nothing in the mean.",
        images=200,
        brief=True,
    ),
    Section(
        "dda",
        "DDA",
        "DDA purifies every image separately with the embedded denoiser and answers with the mean of the probabilities"
        " of the image as given and as adapted ([methods.md](methods.md)); `dda_alone` answers with the adapted image"
        " alone. Settings are the defaults, which were chosen on other corruptions. Source has the same images.",
        "DDA is above Source on eleven of the fifteen corruptions, by far on gaussian and shot noise, without any other"
        " image and without a change of the network; it is below Source on fog, elastic transform, brightness and JPEG"
        " compression. The adapted images alone are better on the three noises and far worse on fog, brightness,"
        " contrast, motion blur and elastic transform, and their mean is below Source: the ensemble gives up a part of"
        " the gain on noise and avoids most of the loss elsewhere. Methods with batch statistics gain more (the section"
        " *Every method on fifteen corruptions* has them); DDA needs no batch. Five images are a point.",
        images=500,
        brief=True,
    ),
    Section(
        "outlier",
        "Outliers",
        "One image in 200 has the first corruption of a pair, the others have the second: the six pairs of the paper."
        " Each pair has ten outliers, so one of them is ten points; the means are over sixty. All methods have tuned"
        " settings ([tuning.md](tuning.md)), which suit streams as short as those of the search. MEMO, which the paper"
        " reports, above MITA for two of the six kinds of outliers, is left out because of its cost.",
        "On all images of a stream MITA has the highest mean, and on the outliers no method has a higher mean. But for"
        " glass blur, pixelate and elastic transform, where batch statistics move the outliers below the unadapted"
        " Source or to its level, MITA does not raise them above it; in the paper it does. An outlier is normalised"
        " with the statistics of its batch before its energy is reduced. Clustered statistics, below, address this.",
        images=2000,
        brief=True,
        ranked=True,
    ),
    Section(
        "mixture",
        "Mixtures",
        "Half of the images have one corruption of a pair, half the other. All methods have tuned settings; MEMO is"
        " left out because of its cost.",
        "MITA has the highest mean, as in the paper, but by less: with one seed and ten batches the lead is not"
        " reliable.",
        images=2000,
        brief=True,
        ranked=True,
    ),
    Section(
        "sweep",
        "From rare outliers to equal shares",
        "The share of the first corruption of a pair grows from one image in 200 to one half, in two of the paper's six"
        " pairs; the paper's sweep also has SAR and SHOT, and TEA only at the two ends. All methods have tuned"
        " settings.",
        "At one image in 200 an outlier is ten points, so only large differences are meaningful. Defocus blur among"
        " zoom blur, two similar corruptions, is far above Source at every share with every method. Glass blur among"
        " gaussian noise falls below Source or to its level until it is half of the stream; on these images no method"
        " is ahead of the others by more than a few images, where the paper has MITA ahead at every share. On the whole"
        " stream MITA leads in the first pair at every share but the last, where TEA is level; in the second pair all"
        " adapting methods are within about a point.",
        images=2000,
        brief=True,
    ),
    Section(
        "mita",
        "MITA, its parts and its rivals",
        "`mita` has its default settings: about three passes over the batch. The others have one Langevin step,"
        " computed"
        " in the pass of the update. `tea` takes one update a batch; `tea_equal_budget` takes two, as many as"
        " `mita_two_models`, which has eleven passes. `mita_two_models` adapts the images to the energy of a second"
        " model, which is adapted further; `mita_same` to the predictor's own energy; `mita_without_model` to that of"
        " the source, which also predicts. Seeds without all rows are not shown.",
        "With three passes MITA is within two tenths of the form with two models on the pure and the outlier stream,"
        " and above TEA with two updates; in the mixture it is behind both. The order of the paper's ablation is"
        " reproduced on every stream as a whole: two models above the"
        " same model above TEA, and above TEA with as many updates, which account for more than half of the lead. In"
        " the"
        " paper the data model differs from the same model by more steps, here by larger ones. Without model"
        " adaptation, adapting the images costs the source slightly in the mixture, most on glass blur, and gains"
        " slightly elsewhere; in the paper it changes almost nothing. The paper's result on outliers is not"
        " reproduced: every method with batch statistics, including MITA, falls below the unadapted Source on them,"
        " where the paper has MITA far above Source; outliers are one in 200 images, and differences between methods"
        " are within the spread over seeds. The sections on clustered statistics give part of the reason, and a"
        " remedy.",
        ranked=True,
    ),
    Section(
        "tuned_long",
        "Tuned settings on a long stream",
        "The settings that were chosen on streams of ten batches ([tuning.md](tuning.md)), on fifty batches.",
        "TENT keeps the gain of the search. TEA and MITA do not: over the first batches the tuned settings are above"
        " the defaults, as in the search, then the accuracy falls until the end, while with the defaults it ends higher"
        " than it began (`batch_accuracies` in the store). Steps that suit ten batches are too large for fifty."
        " Therefore MITA's defaults remain the cautious settings, and the tuned ones are for streams as short as those"
        " of the search.",
        beside="mita",
        rows=("source", "tent", "tent_tuned", "tea", "tea_tuned", "mita_two_models", "mita_tuned"),
        streams=("pure:gaussian_noise",),
        brief=True,
    ),
    Section(
        "ablation",
        "Ablation",
        "The pair of the paper's ablation. `mita` has its default settings; the other rows are the form with two"
        " models,"
        " `mita_two_models`, and its parts. `mita_without_data` is TEA; `tea_equal_budget` takes as many updates as the"
        " two models together.",
        "`mita`, with three passes, is level with `mita_two_models`, with eleven, or above it. With two models MITA is"
        " above `mita_same`, and `mita_same` above `mita_without_data` as in"
        " the paper, but by little and on two"
        " of the four streams; data adaptation alone gains about a point, where the paper has no gain. Two updates a"
        " batch explain a third to a half of MITA's lead over `mita_without_data` on these short streams, more on the"
        " longer ones of the section on MITA and its rivals, and nowhere all of it: TEA with as many is below MITA on"
        " all four streams.",
        images=2000,
        brief=True,
    ),
    Section(
        "published",
        "As published",
        'The effect of Midway\'s changes to MITA with two models. `mita_four_steps` is `preset="published"` with four'
        " steps of the data model, at the predictor's learning rate, where `mita_two_models` takes one at three times"
        " that rate; images are adapted pixel by pixel, and every Langevin step has a pass of its own. `tea_published`"
        " has 20 Langevin steps. `mita_noise` and `tea_noise` have no Langevin step: uniform noise replaces samples of"
        " the model. `mita_two_models`, `tea` (here `mita_without_data`) and `tea_equal_budget` are the rows of the"
        " ablation above. The presets themselves, printed and published, have no run yet.",
        "On these noises four steps as published are level with one larger step or slightly above, for three times its"
        " passes; where the contrast is low they fail ([methods.md](methods.md)). The choice of samples hardly matters:"
        " uniform noise, one Langevin step or twenty are within half a point, in TEA and in MITA. On streams as short"
        " as these, the energy of the test images can be contrasted with that of noise, and more steps gain almost"
        " nothing.",
        beside="ablation",
        rows=(
            "source",
            "tea_noise",
            "mita_without_data",
            "tea_equal_budget",
            "tea_published",
            "mita_noise",
            "mita_two_models",
            "mita_four_steps",
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
        "clustered_tuning",
        "Clustered statistics: the corruptions they were tuned on",
        "Batch statistics are part of what limits methods on outliers and mixtures: an image is normalised with"
        ' statistics from unrelated images. With `statistics="clustered"`, which the paper does not have, the kinds of'
        " images are found from their spectra, each is normalised with its own statistics, and kinds that come back are"
        " remembered ([clustered.md](clustered.md)); the last row has no memory. The constants were chosen on these"
        " corruptions; twenty outliers a stream, no weight is updated.",
        "Where the two corruptions differ much (blur and noise), mixtures gain much, and the outliers rise from below"
        " the unadapted Source to far above it. Where they are similar (saturate and spatter), little changes.",
        images=4000,
        brief=True,
    ),
    Section(
        "clustered_pairs",
        "Clustered statistics: the paper's pairs",
        "The same on the pairs of the paper, whose corruptions were not used to choose the constants; 50 outliers a"
        " stream.",
        "Outliers rise above Source in five of the six pairs, in the mean by far, and all mixtures gain: in the mean"
        " they are within a point of the oracle, which knows the kinds ([clustered.md](clustered.md)). A lone elastic"
        " transform in fog is not told apart by its spectrum and stays below Source. The rest of the outlier streams"
        " loses a little, most of all zoom blur. Fifty outliers are few (one is two points); clustered.md has a"
        " thousand"
        " a pair.",
        brief=True,
    ),
    Section(
        "clustered_mixed",
        "Clustered statistics: mixed domains",
        "All fifteen corruptions in random order, the first 667 test images under each. `bn_alpha` is alpha-BN,"
        " `bn_unmix` UnMix-TNS with the 128 components published for mixed domains ([methods.md](methods.md)); no"
        " weight is updated.",
        "Clustered statistics close nearly three quarters of the gap between BN on the mixture and BN on each"
        " corruption by itself (its mean is in the section on tuned settings, for other images). The two published"
        " statistics stay near Source with this network; why was not examined.",
        images=10_005,
        brief=True,
    ),
    Section(
        "clustered",
        "Clustered statistics under other methods",
        "The methods of the section on MITA and its rivals, with and without them. Default settings.",
        "Methods that update weights gain from them as BN does: TEA with them is far above MITA without them in the"
        " mixture, and its outliers rise from below Source to far above it. The pure stream loses a little.",
        beside="mita",
        rows=(
            "source",
            *(
                f"{name}{ending}"
                for name in ("bn", "tent", "tea_equal_budget", "mita")
                for ending in ("", "_clustered")
            ),
        ),
        brief=True,
    ),
    Section(
        "cifar100",
        "CIFAR-100",
        "A ResNet-56 (0.9 million weights, 72.6 % on clean images) on corrupted CIFAR-100; the paper has another"
        " network. The images are the first of the test set in an order shuffled once, and the weights are public (the"
        " head of the plan gives the source of both). Settings as in the first table, MITA with two models; MEMO is"
        " left out because of its"
        " cost.",
        "With default settings MITA and TEA are level, and slightly ahead of the methods that minimise entropy: five"
        " batches are few. The settings tuned on CIFAR-10 carry over to this other network and its hundred classes:"
        " with them MITA has the highest mean, as in the paper, and TEA is second. Under JPEG compression batch"
        " statistics alone cost more than they gain.",
        images=1000,
        brief=True,
        shares=FILTERS,
        ranked=True,
    ),
    Section(
        "imagenet",
        "ImageNet size",
        "EfficientNet-lite0 (4.7 million weights, 224 pixels) on ImageNet validation images, one of each class, in"
        " batches of 50. The same code as for CIFAR, with settings chosen by the number of classes and the size of the"
        " images. The paper has no such table. MEMO has its own table below.",
        "With only two batches, methods that predict before they adapt are nearly equal to BN: TENT and SHOT have taken"
        " one small step when they predict the second batch, and the filters of PL, EATA and SAR select almost no"
        " image except under fog: with statistics of so few images, at this severity, few predictions are confident."
        " TEA and MITA, which predict after their update, are slightly below BN. Batch statistics help against noise,"
        " blur and fog, and harm where JPEG compression had little effect.",
        images=100,
        brief=True,
        shares=FILTERS,
    ),
    Section(
        "imagenet_memo",
        "ImageNet size: MEMO",
        "The same network and corruptions, 64 views of each image as published, on few images. Source has the same"
        " images.",
        "MEMO runs without changes. With so few images, one of which is six points, the numbers have no other meaning.",
        images=16,
        brief=True,
    ),
    Section(
        "pacs",
        "Domain shift: PACS",
        "EfficientNet-lite0, fine-tuned on photos (recipes/finetune_pacs.py) and tested on the other three domains, 60"
        " images a class at 128 pixels, in batches of 60. The published set has more images: with them the command"
        " gives other numbers.",
        "Batch statistics give most of the possible gain, and model adaptation, in TEA, slightly more. MITA does not"
        " lead: TEA is MITA without data adaptation and is above it in all three domains, most of all on sketches. A"
        " drawing is not a corrupted photo that a small change of the image could restore. The settings tuned on"
        " CIFAR-10 help both, and MITA stays below BN. With 420 images, four of them are a point.",
        images=420,
        brief=True,
        shares=FILTERS,
    ),
)
