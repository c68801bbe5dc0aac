package failpoint

// Names are all failpoints, grouped by their component. Builds without the tag do not contain them.
var Names = []string{
	// start
	"start.listening", "start.folder", "start.store", "start.checked", "start.led", "start.announced",
	// requests of the log
	"put.meta.before", "put.meta.after", "put.seal.before", "put.seal.after", "put.data.before", "put.data.after",
	"put.snapshot.before", "put.snapshot.after", "get.before", "get.after", "list.before", "list.after",
	"delete.before", "delete.after",
	// steps after a request
	"role", "commit.before-answer", "commit.after-answer", "fenced.before-answer",
	// packs
	"pack.built", "put.pack.before", "put.pack.after", "install.before", "install.after", "compacted.before", "compacted.after",
	// the disk cache
	"cache.write.before", "cache.write.after", "cache.rename.after",
	// a bucket in a folder
	"disk.created", "disk.written", "disk.synced", "disk.moved", "disk.put", "disk.folder", "disk.deleted",
	"disk.stage.created", "disk.stage.written", "disk.stage.synced",
	// a journal of a bucket in a folder
	"journal.claimed", "journal.folder", "journal.prepared", "journal.written", "journal.synced", "journal.looked", "journal.recorded", "journal.decided",
	"journal.left", "journal.next", "journal.marked", "journal.ended", "journal.gone", "journal.removed",
	// the stop
	"stop.begun", "stop.flushed",
}
