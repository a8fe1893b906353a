"""Sections of docs/results.md: fifteen corruptions, one at a time."""

from __future__ import annotations

from result_sections.section import FILTERS, Section

PURE = (
    "Each corruption by itself; the method is reset before it. Settings are the defaults; those of PL, SHOT, LAME,"
    " DUA and SAR are not quite the published ones ([methods.md](methods.md)). `mita` has its default of about three"
    " passes, `mita_two_models` the form with two models and one step each and eleven passes; both were chosen on"
    " other corruptions ([methods.md](methods.md) has the one exception). TEA has one Langevin step, computed in the"
    " pass of the update (20"
    " steps in passes of their own, as published, cost nine times as much; the section *As published* has both). EATA"
    " has no Fisher images and is therefore ETA. MEMO has its own table below. The paper's numbers are in"
    " brackets; it has none for PL, T3A, LAME and DUA."
)

SECTIONS = (
    Section(
        "pure",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA is above TEA in the mean, and TEA above the methods that minimise entropy; the"
        " gains over BN and TENT are smaller than the paper's. `tea_equal_budget`, with two updates and nine"
        " passes, is level with MITA's default of three passes; the form with two models and eleven passes is"
        " slightly above both. The default is on no corruption clearly below BN, as the form with two models is"
        " where the contrast is low or the corruption weak. T3A and LAME use the statistics of the source and make"
        " its errors; LAME falls below the source, because it assumes that a batch contains few classes, and these"
        " batches are shuffled.",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "defaults",
        "Every method on fifteen corruptions",
        PURE,
        "As in the paper, MITA has the highest mean accuracy and the lowest mCE, and TEA is second; the"
        " differences are smaller than the paper's, because ten batches are few for methods that update weights."
        " T3A and LAME use the statistics of the source and make its errors; LAME falls below the source, because"
        " it assumes that a batch contains few classes, and these batches are shuffled.",
        images=2000,
        until="pure",
        ranked=True,
        brief=True,
        costs=True,
        shares=FILTERS,
    ),
    Section(
        "never_harm",
        "Where adaptation could harm",
        "MITA beside BN and TEA with as many updates on every corruption and on clean images, in bf16.",
        "",
        brief=True,
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
)
