// Package journal keeps the objects of one folder of a disk bucket in a few large files instead of
// one file each. An object costs one append and one sync, and all objects that wait share both.
//
// The contract of the store stays: a name is put at most once, by whichever process comes first. A
// journal is written by one process only, without a lock, so a stopped process blocks nothing. The
// rules below make that safe. FORMAT.md has the bytes.
//
//	J1  Claim. A process claims a folder that does not exist: a regular file at the folder's path,
//	    put if absent, names the run, 16 random bytes. Only this run appends to the journal, and it
//	    never continues after it has ended or the process has stopped.
//	J2  One flush at a time. A flush appends all objects that wait as one batch and syncs the file.
//	    Nothing of the next batch is written before this sync has returned. So every batch with
//	    another batch behind it is durable.
//	J3  Batches begin at multiples of 4 KiB, so that no block with acknowledged bytes is written
//	    again. A batch is valid only with the run, the file number and the offset at which it is.
//	J4  Look before the answer. After the sync the owner asks whether the mark is there. Only if it
//	    is not, the objects are stored. With a mark, the end decides (J5).
//	J5  End. A process that wants to put a name into the folder of another run ends its journal: it
//	    makes the mark (a folder), reads the journal to the last complete batch, syncs it, reads that
//	    batch again from the disk, and puts the position behind it as the end, if absent. The end
//	    that was put first holds for every process. A batch behind it does not exist.
//	J6  Late names. After the end, a name that lies in the journal before the end exists. Every other
//	    name is a file in the folder of the mark, put if absent. The file wins over the journal, and is
//	    deleted after the tombstone was appended.
//	J7  Readers. Another process reads new batches, syncs the file, reads the last batch again from
//	    the disk, and then looks for the mark. Without a mark it shows them. With one it completes J5.
//	J8  Files. The next file is filled with zeros ahead of need, slowly, and its name is durable. The
//	    current file gets an end mark, synced, before anything is appended to the next one. A missing
//	    file before an existing one means that its objects were deleted. After the end the files behind
//	    it are removed, and zeros behind it are cut off but for a block.
//	J9  Delete appends a tombstone, which it does not sync: after a power failure a deleted object, or
//	    an older one of its name, may exist again. A file is removed when its run has left it and all
//	    its objects are deleted. A note that the last file is removed is durable before, so that a
//	    file that was lost can be told from it.
//	J10 Errors. After a failed write or sync the run stores nothing more.
//	J11 A clean close ends the journal, so that a damaged last batch can be told from a torn one.
//	J12 Position. When the first file is durable, the owner makes a position file beside the claim.
//	    After each look without a mark, and before the answer, it sets there the position behind the
//	    batch, which survives a kill at once and a power failure about a second later. Readers of a
//	    journal without an end read it before they read batches. A journal that ends before it, or
//	    that ends in a missing file or in one without space for an end mark, is damaged. The end is
//	    then named behind the damage. The position file is removed when the end has a name.
//
// # Why J4 and J5 decide alike
//
// The owner writes, syncs and looks for the mark. Another process makes the mark and then reads. If
// the owner finds no mark, the mark was made after the owner looked, and so after it wrote: the
// other process reads the batch and names the end behind it. If the owner finds the mark, it trusts
// the end alone. So an acknowledged object is always before the end, and a name behind the end
// belongs to the first process that puts it as a file. A process that was stopped anywhere and
// continues a week later finds the mark before it answers.
//
// J7 follows in the same way: what a reader saw before it found no mark is also seen by every
// process that makes the mark later.
//
// # What a reader concludes from the bytes
//
// The first place without a valid batch is the end of what was written, or damage. It is damage if
// a valid batch, a later file with one, the named end or the recorded position lies behind it. What
// lies behind the recorded position was never answered, so it can be torn.
//
// # Why the position is never behind the end
//
// The owner sets the position only if it has found no mark after the batch was synced. So every
// process that names an end has made its mark later, reads the batch, and names the end behind it. The
// position is also not ahead of the disk: a power failure that keeps the position keeps the batch, which
// was synced before. It may keep an older position, or none. An older position proves less, and
// refuses nothing.
//
// Without a position, in a journal of an older version, two rules remain. An end mark proves that the
// next file existed, and no process removes the file in which the batches end before the end has a name. A
// batch is written only where it fits with an end mark behind it, so a file without that space
// was cut off. Bytes behind the last batch prove nothing: a power failure may leave any.
//
// An owner answers from memory. It does not see what other processes delete before it knows that
// its journal has ended.
package journal
