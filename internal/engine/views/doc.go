// Package views holds the common parts of the log's followers: the key index and the trigger
// engine. A follower reads committed batches in the order of each partition. It keeps the data that
// it derives from them in a local SQLite file (package localdb).
//
//	log --Read--> worker --one transaction--> file --queries--> readers
//	 |              ^                           |
//	 +--Changed--> Loop <------ErrDamaged-------+   the file is deleted and rebuilt
//
// The contract, and why the order of the steps keeps it:
//
//   - The transaction that stores derived data also stores the position up to which the log was
//     read. After a crash the file is a consistent earlier version: no record is applied twice and
//     none is skipped.
//   - Ends of partitions and batches come from the committed state, so a follower never shows data
//     beyond the acknowledged end. It fetches the ends first and reads afterwards. A conclusion
//     from an end (a deadline has passed, a reader is up to date) is therefore valid once the
//     follower has read up to that end.
//   - The wake-up follows the change: Changed has an element for every change since it was last
//     received from. A change during a turn therefore starts the next turn.
//   - The file is a cache of the log and may be deleted whenever no process has it open. Data that
//     does not match the log is damaged (Options.Damaged): a damaged page, another format, another cluster
//     ID, or records of an epoch that the log does not contain. The worker then closes the file,
//     the Loop deletes it, and the next turn starts a new one. A second rebuild without a
//     successful turn between them backs off like any other error.
//   - Readers see the file only after its positions were compared with the log (SameOrigin),
//     because the bucket may have been restored to an earlier state since the file was written.
package views
