package record_test

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMarker(t *testing.T) {
	for _, commit := range []bool{false, true} {
		b := record.AppendMarker(nil, &record.Marker{Commit: commit, ProducerID: 77, ProducerEpoch: 3, Timestamp: 12345})
		check.Equal(t, len(b), record.MarkerSize)
		record.Patch(b, 1000, 5)
		_ = must.Get(record.Verify(b))(t)
		back, ok := record.Batch(b).Marker()
		check.Equal(t, ok, true)
		check.Equal(t, back, record.Marker{Commit: commit, ProducerID: 77, ProducerEpoch: 3, Timestamp: 12345})
		var batch kmsg.RecordBatch
		must.NoError(t, batch.ReadFrom(b))
		check.Equal(t, batch.Attributes, 0x30)
		check.Equal(t, batch.ProducerID, 77)
		check.Equal(t, batch.ProducerEpoch, 3)
		check.Equal(t, batch.FirstSequence, -1)
		var rec kmsg.Record
		must.NoError(t, rec.ReadFrom(batch.Records))
		var key kmsg.ControlRecordKey
		must.NoError(t, key.ReadFrom(rec.Key))
		check.Equal(t, key.Type == kmsg.ControlRecordKeyTypeCommit, commit)
		var value kmsg.EndTxnMarker
		must.NoError(t, value.ReadFrom(rec.Value))

		var r record.Reader
		r.Reset(b, 0)
		check.Equalf(t, r.Next(), false, "a marker is no record")
		check.NoError(t, r.Err())
	}
}

func TestTransactionalBatches(t *testing.T) {
	plain, _, err := record.Append(nil, []record.Record{{Value: []byte("a")}}, record.EncodeOptions{})
	must.NoError(t, err)
	mark := func(attributes byte) []byte {
		b := append([]byte(nil), plain...)
		record.StampProducer(b, record.Producer{ID: 9, Epoch: 1, Sequence: 0})
		b[22] |= attributes
		binary.BigEndian.PutUint32(b[17:], record.CRC32C(b[21:]))
		return b
	}
	sum := must.Get(record.Check(mark(record.AttrTransactional), record.Limits{Transactional: true}))(t)
	check.Equal(t, sum.Transactional, true)
	bare := append([]byte(nil), plain...)
	bare[22] |= record.AttrTransactional
	binary.BigEndian.PutUint32(bare[17:], record.CRC32C(bare[21:]))
	for name, c := range map[string]struct {
		b      []byte
		limits record.Limits
	}{
		"outside of a transaction": {mark(record.AttrTransactional), record.Limits{}},
		"a control batch":          {mark(record.AttrTransactional | record.AttrControl), record.Limits{Transactional: true}},
		"a mixture":                {append(mark(record.AttrTransactional), mark(0)...), record.Limits{Transactional: true}},
		"without a producer":       {bare, record.Limits{Transactional: true}},
	} {
		_, err := record.Check(c.b, c.limits)
		check.ErrorIsf(t, err, record.ErrInvalid, "%s", name)
	}
}
