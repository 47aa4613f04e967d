"""The papers as studies: rows as data, what derives our values, verdicts, figures, and a report (`fairhop study`)."""

from fairhop.studies import cai2005, kim2010, nordstrom2005, osipov2007, xu2002
from fairhop.studies.model import Study

__all__ = ["STUDIES", "Study"]

#: All studies by the short name of the paper, in the order of docs/claims.md.
STUDIES: dict[str, Study] = {
    study.name: study for study in (kim2010.STUDY, osipov2007.STUDY, nordstrom2005.STUDY, cai2005.STUDY, xu2002.STUDY)
}
