"""Sections of docs/results.md: fifteen corruptions, one at a time."""

from __future__ import annotations

from result_sections.section import FILTERS, Section

SECTIONS = (
    Section(
        "pure",
        "Every method on fifteen corruptions",
        "Each corruption by itself; the method is reset before it. Settings are the defaults. Those of PL, SHOT,"
        " LAME, DUA and SAR differ from the published ones; PL and LAME are far better with them"
        " ([methods.md](methods.md)). `mita` has its default of about three passes, `mita_two_models` the form with"
        " two models and one step each and eleven passes; both were chosen on other corruptions"
        " ([methods.md](methods.md) has the one exception). TEA has one Langevin step, computed in the pass of the"
        " update (20 steps in passes of their own, as published, cost nine times as much; the section *As published*"
        " has both). EATA has no Fisher images and is therefore ETA. MEMO has its own table below. The paper's"
        " numbers are in brackets; it has none for PL, T3A, LAME and DUA.",
        "As in the paper, MITA is above TEA in the mean, and TEA above the methods that minimise entropy; the gains"
        " over BN and TENT are smaller than the paper's, and most of the lead over TEA is due to the noises and"
        " glass blur. `tea_equal_budget`, with two updates and nine passes, is level with MITA's default of three"
        " passes; the form with two models and eleven passes is slightly above both. The default is on no corruption"
        " clearly below BN; the form with two models is, on brightness, and slightly on contrast. BN and TENT with"
        " mirrored views are above MITA here for two and three passes; the section *Where adaptation could harm* has"
        " them. T3A and LAME use the statistics of the source and make its errors; LAME falls below the source,"
        " because it assumes that a batch contains few classes, and these batches are shuffled.",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "never_harm",
        "Where adaptation could harm",
        "MITA beside BN, TENT, TEA with as many updates, and BN and TENT with mirrored views, on every corruption "
        "and on clean images. The networks run in bf16.",
        "MITA gains most where BN errs most, on noise and glass blur. Where little is to gain (brightness, contrast,"
        " snow, defocus blur, clean images) it is level with BN and TEA: in the mean of the seeds it is nowhere below"
        " either by more than a sixth of a point. On clean images no method with the statistics of the batch reaches"
        " the unadapted network, unless it has mirrored views. BN with"
        " mirrored views, for two passes in place of three, is above MITA in the mean and on all but the noises,"
        " glass blur and JPEG compression; TENT with them, for as many passes as MITA, is above it nearly"
        " everywhere.",
        brief=True,
        against=("bn", "tea"),
    ),
    Section(
        "tuned",
        "Tuned settings on fifteen corruptions",
        "The same with the settings that a search with an equal number of trials chose for each method, on other"
        " corruptions and a stream of fifty batches ([tuning.md](tuning.md)). `tent_mirror` has the settings of"
        " TENT. MEMO was not searched. The networks run in bf16.",
        "With equal tuning the methods that update weights are within half a point of each other in the mean. EATA"
        " and SHOT, which need two passes, are level with MITA, which needs three; MITA leads the methods that see"
        " each image once on gaussian noise, impulse noise and glass blur, EATA or SHOT does on seven others, and PL,"
        " SAR or TEA on the rest. So the lead that MITA has with default settings is mostly one of settings, above"
        " all of step sizes: the published steps of the other methods are small for fifty batches, and larger ones"
        " harm hardly any of these corruptions. TENT, of which only the step was searched, stays slightly below MITA."
        " TENT with mirrored views and its tuned step, for as many passes as MITA, is above all other rows on nearly"
        " every corruption. DUA's settings were tuned on a stream whose corruption changes and lose a third of its"
        " gain where it does not; T3A's lose slightly; the best LAME is Source.",
        ranked=True,
        brief=True,
    ),
)
