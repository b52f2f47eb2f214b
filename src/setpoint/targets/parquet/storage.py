"""Files below a table's root: on a local disk, or in whatever Hadoop's file systems reach."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from py4j.protocol import Py4JError

from setpoint.errors import RefusedError, TransientError
from setpoint.spark.classes import java_class
from setpoint.targets.storage import StoredFile, out_of_reach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE = 600.0
_PAUSE = 0.05
_LEASE_MS = 15 * 60_000
# File systems on which only one of two creators of a file succeeds.
_EXCLUSIVE = frozenset({"hdfs", "viewfs", "abfs", "abfss", "gs", "ofs", "file"})
# What a file system that does not answer raises, on either side of the bridge to the JVM.
_SILENT = (OSError, Py4JError)


class Files(Protocol):
    """What is asked of the storage; all places are full paths."""

    def listed(self, folder: str) -> list[StoredFile]:
        """All files below a folder, by their paths in it; none when it is not there."""
        ...

    def read(self, path: str) -> str: ...

    def write(self, path: str, text: str) -> None:
        """Make a new file, with its folder."""
        ...

    def drop(self, path: str) -> None:
        """Remove a file or a folder with all below it; fine when it is not there."""
        ...

    def locked(self, path: str, owner: str) -> Any:
        """Hold the lock at a path for the length of a block."""
        ...


class LocalFiles:
    """The local disk, without a JVM."""

    def listed(self, folder: str) -> list[StoredFile]:
        found = []
        for parent, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(parent, name)
                with suppress(FileNotFoundError):
                    stat = os.stat(path)
                    relative = os.path.relpath(path, folder)
                    found.append(StoredFile(relative, stat.st_size, stat.st_mtime_ns // 1_000_000))
        return sorted(found, key=lambda file: file.path)

    def read(self, path: str) -> str:
        return Path(path).read_text(encoding="utf-8")

    def write(self, path: str, text: str) -> None:
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f".{target.name}.unfinished")
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(target)

    def drop(self, path: str) -> None:
        target = Path(path)
        with suppress(FileNotFoundError):
            if target.is_dir():
                shutil.rmtree(target)
            else:
                target.unlink()

    @contextmanager
    def locked(self, path: str, owner: str) -> Iterator[None]:
        """flock: the kernel releases it when the process ends, however it ends."""
        import fcntl

        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a") as file:

            def taken() -> bool:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                return True

            _wait_for(taken, path, lambda: f"Who holds it: fuser {path}")
            try:
                yield
            finally:
                fcntl.flock(file, fcntl.LOCK_UN)


class HadoopFiles:
    """Any file system that Hadoop reaches, through the session's JVM."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session

    def listed(self, folder: str) -> list[StoredFile]:
        fs, path = self._at(folder)
        if not fs.exists(path):
            return []
        start = len(fs.makeQualified(path).toUri().getPath().rstrip("/")) + 1
        found, files = [], fs.listFiles(path, True)
        while files.hasNext():
            item = files.next()
            name = str(item.getPath().toUri().getPath())[start:]
            found.append(StoredFile(name, int(item.getLen()), int(item.getModificationTime())))
        return sorted(found, key=lambda file: file.path)

    def read(self, path: str) -> str:
        fs, place = self._at(path)
        stream = fs.open(place)
        try:
            utf_8 = self._class("java.nio.charset.StandardCharsets").UTF_8
            return str(self._class("org.apache.commons.io.IOUtils").toString(stream, utf_8))
        finally:
            stream.close()

    def write(self, path: str, text: str) -> None:
        fs, place = self._at(path)
        self._put(fs.create(place, False), text)

    def drop(self, path: str) -> None:
        fs, place = self._at(path)
        fs.delete(place, True)

    @contextmanager
    def locked(self, path: str, owner: str) -> Iterator[None]:
        """A file that only one can create; a lock of a dead owner ends after a quarter hour."""
        fs, place = self._at(path)
        scheme = str(fs.getScheme())
        if scheme not in _EXCLUSIVE:
            raise RefusedError(
                "SP-T03",
                f"A Parquet table on {scheme}:// cannot be published.",
                why="A metastore has no compare-and-set, so a publish needs a lock, and two "
                f"creators of one file can both succeed on {scheme}://.",
                next="Use delta(...) or iceberg(...) there.",
            )

        def taken() -> bool:
            try:
                self._put(fs.create(place, False), owner)
            except Exception as error:
                if "AlreadyExists" not in str(error):
                    raise
                self._end_if_old(fs, place, path, owner)
                return False
            return True

        _wait_for(taken, path, lambda: self._holder(fs, place, path))
        try:
            yield
        finally:
            # A lock that cannot be given back ends with its lease.
            with suppress(*_SILENT):
                if self.read(path) == owner:
                    fs.delete(place, False)

    def _holder(self, fs: Any, place: Any, path: str) -> str:
        """Whose lock it is, and when it ends by itself."""
        try:
            taken_at = int(fs.getFileStatus(place).getModificationTime())
            since, until = (_hour(ms) for ms in (taken_at, taken_at + _LEASE_MS))
            return (
                f"Attempt {self.read(path)} holds it since {since}. If its process has died, the "
                f"lock ends by itself at {until}"
            )
        except _SILENT:
            return "Who holds it could not be read"

    def _end_if_old(self, fs: Any, place: Any, path: str, owner: str) -> None:
        # The file system's own clock, so that no two machines have to agree on the time.
        probe_place = f"{path}-{owner}"
        # As long as its age cannot be told, the lock is somebody's.
        with suppress(*_SILENT):
            taken_at = int(fs.getFileStatus(place).getModificationTime())
            probe = self._at(probe_place)[1]
            self._put(fs.create(probe, True), owner)
            now = int(fs.getFileStatus(probe).getModificationTime())
            fs.delete(probe, False)
            if now - taken_at > _LEASE_MS:
                fs.delete(place, False)

    def _put(self, stream: Any, text: str) -> None:
        try:
            stream.write(bytearray(text, "utf-8"))
        finally:
            stream.close()

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._class("org.apache.hadoop.fs.Path")(path)
        context = self._session.sparkContext._jsc
        return place.getFileSystem(context.hadoopConfiguration()), place

    def _class(self, name: str) -> Any:
        return java_class(self._session, name)


class Gone(TransientError):
    """A file that was there a moment ago is not."""


class ToldFiles:
    """A storage whose failures are told in our words, on whichever side of the JVM they arise."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def listed(self, folder: str) -> list[StoredFile]:
        with _told(folder):
            return self._files.listed(folder)

    def read(self, path: str) -> str:
        with _told(path):
            return self._files.read(path)

    def write(self, path: str, text: str) -> None:
        with _told(path):
            self._files.write(path, text)

    def drop(self, path: str) -> None:
        with _told(path):
            self._files.drop(path)

    @contextmanager
    def locked(self, path: str, owner: str) -> Iterator[None]:
        with ExitStack() as held:
            with _told(path):  # taking the lock, and not what is done under it
                held.enter_context(self._files.locked(path, owner))
            yield


@contextmanager
def _told(path: str) -> Iterator[None]:
    try:
        yield
    except _SILENT as error:
        told = out_of_reach(path, error)
        if isinstance(error, FileNotFoundError) or "FileNotFoundException" in str(error):
            told = Gone(told.code, told.what, why=told.why, state=told.state, next=told.next)
        raise told from error


def files_at(location: str, session: Callable[[], SparkSession]) -> Files:
    """The storage of a location."""
    return ToldFiles(HadoopFiles(session()) if "://" in location else LocalFiles())


def _hour(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%H:%M} UTC"


def _wait_for(taken: Callable[[], bool], path: str, holder: Callable[[], str]) -> None:
    waited, pause = 0.0, Event()
    while not taken():
        if waited >= _PATIENCE:
            raise TransientError(
                "SP-P03",
                f"The lock {path} was held by others for {_PATIENCE:.0f} seconds.",
                why="A metastore has no compare-and-set: publishes of one table take turns.",
                next=f"Run again when the others have ended. {holder()}",
            )
        pause.wait(_PAUSE)
        waited += _PAUSE
