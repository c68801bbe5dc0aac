package riemann

import (
	"testing"
)

// BenchmarkMessage measures the steps of a message of 100 events. Divide by 100 for an event.
func BenchmarkMessage(b *testing.B) {
	msg := usual(100)
	m, err := walk(msg)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("walk", func(b *testing.B) {
		b.SetBytes(int64(len(msg)))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := walk(msg); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("transcode", func(b *testing.B) {
		b.SetBytes(int64(len(msg)))
		b.ReportAllocs()
		buf := make([]byte, 0, m.room())
		for b.Loop() {
			if data, _ := transcode(msg, buf, 1); len(data) == 0 {
				b.Fatal("no data")
			}
		}
	})
}
