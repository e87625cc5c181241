"""The users of a data set, each with all records of theirs, as what joins, leaves or changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from audit.core.errors import ConfigError
from audit.replays.records import RecordList, new_key

_NEW_RECORDS = 5  # records of a new user


class UserList(RecordList):
    """A data set as its users; a user is the list of its records. One taken again, or appended, has a name of its own."""

    noun, newcomer = "user", f"a user with {_NEW_RECORDS} times "

    def __init__(self, data: Any, unit: str) -> None:
        super().__init__(data)
        self.records, self.unit = RecordList(data), unit
        self._places = dict[Any, list[int]]()
        for place, user in enumerate(self.records.values(unit)):
            self._places.setdefault(user, []).append(place)
        self.count = len(self._places)
        if self.count and not isinstance(self.records.get(0), dict | list):
            raise ConfigError(
                f"unit is '{unit}', and a record is a {type(self.records.get(0)).__name__}: users are told apart by a column "
                f"or a key '{unit}'; give a table or dictionaries"
            )

    def like(self, data: Any) -> UserList:
        """Return another data set of the same kind."""
        return UserList(data, self.unit)

    def label(self, place: int) -> str:
        """Return what the records of a user are called."""
        return f"all records of {self.unit} {list(self._places)[place]!r}"

    def model(self) -> Any:
        """Return the records of a new user: many."""
        return (self.get(0) * _NEW_RECORDS)[:_NEW_RECORDS]

    def get(self, place: int) -> list[Any]:
        """Return the records of a user."""
        return [self.records.get(i) for i in list(self._places.values())[place]]

    def take(self, places: Sequence[int]) -> Any:
        """Return the data of these users."""
        users = list(self._places.values())
        data = self.records.take(sorted(i for place in set(places) for i in users[place]))
        for i, place in enumerate(places):
            data = self.like(data).append(self.get(place)) if place in places[:i] else data
        return data

    def append(self, record: Any) -> Any:
        """Return the data with a new user that has these records."""
        user, records = new_key(self._places), self.records
        for row in record:
            records = records.like(records.append(self._name_row(row, user)))
        return records.data

    def replace(self, place: int, record: Any) -> Any:
        """Return the data with other records of a user, as many as before."""
        user, places = list(self._places.items())[place]
        records = self.records
        for i, row in zip(places, record * len(places), strict=False):
            records = records.like(records.replace(i, self._name_row(row, user)))
        return records.data

    def _name_row(self, row: Any, user: Any) -> Any:
        if isinstance(row, dict):
            return {**row, self.unit: user}
        return [user if name == self.unit else part for name, part in zip(self.data, row, strict=True)]
