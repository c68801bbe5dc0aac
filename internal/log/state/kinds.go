package state

import "fmt"

var kindNames = map[RecordKind]string{
	TopicCreate: "topic create", TopicDelete: "topic delete", TopicChange: "topic change", LeaderHint: "leader",
	TopicTrim: "topic trim", OffsetCommit: "offset commit", OffsetDelete: "offset delete", ProducerAppend: "producer append",
	PackInstall: "pack install", CompactionDone: "compaction done",
	FormatLevel: "format level", LossAccepted: "loss accepted", TimeReset: "time reset", AccessChange: "access change",
	LeaderRun: "leader run", NextSlot: "next slot",
}

// String names a kind for people.
func (k RecordKind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("kind %d", uint8(k))
}
