// Package follow has what the followers of the log have in common: the key index and the engine of triggers. A follower
// reads committed batches in the order of each partition, and keeps what it derives from them in a local SQLite file
// (package localdb).
//
//	log --Read--> worker --one transaction--> file --queries--> readers
//	 |              ^                           |
//	 +--Changed--> Loop <------ErrDamaged-------+   the file is deleted and rebuilt
//
// The contract, and why the order of the steps keeps it:
//
//   - A position is stored in the transaction that stores what was derived from the records before it. After a crash the
//     file is that of an earlier moment as a whole: no record is applied twice, and none is left out.
//   - Ends of partitions and batches come from the committed state, so a follower never shows what is beyond the
//     acknowledged end. It takes the ends first and reads afterwards: what it concludes from an end (a deadline has
//     passed, a reader is up to date) holds once it has read up to that end.
//   - The wake-up comes after the change: Changed has an element for every change since it was last received from, so a
//     change during a turn starts the next turn.
//   - The file is a cache of the log. It may be deleted whenever no process has it open. What does not match it (a damaged
//     page, another format, the id of another cluster, records of an epoch that the log does not have) is localdb.ErrDamaged:
//     the worker closes the file, the Loop deletes it, and the next turn begins a new one. A second rebuild without a good
//     turn between them waits like any other error.
//   - Readers see the file only after its positions were compared with the log (SameOrigin), because the bucket may have been
//     restored from an earlier state since the file was written.
package follow
