// Package recordtest encodes records for the tests of many packages, and as hostile clients do.
package recordtest

import "github.com/sebbroker/seb/record"

// Encode returns records as batches. It panics if record.Append refuses them.
func Encode(recs []record.Record, o record.EncodeOptions) ([]byte, record.Summary) {
	data, sum, err := record.Append(nil, recs, o)
	if err != nil {
		panic(err)
	}
	return data, sum
}

// Values returns a record for each value, with the timestamps 1000, 1001, ...
func Values(values ...string) []record.Record {
	recs := make([]record.Record, len(values))
	for i, v := range values {
		recs[i] = record.Record{Timestamp: 1000 + int64(i), Value: []byte(v)}
	}
	return recs
}
