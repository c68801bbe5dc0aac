package pressure

import (
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/sebbroker/seb/api"
)

var journalRecords = flag.Int("journal-records", 10_000, "number of records that are stored one by one in a journal (full run: 200000)")

// TestJournalGrows: writers fill the journal of a bucket in a folder with commit objects of one
// record. The broker keeps an index of all objects that were not merged and deleted. It stays within
// its limit, restarts, and has every record.
func TestJournalGrows(t *testing.T) {
	beside(t)
	const topic, writers = "small", 4
	b := startOn(t, "file:"+t.TempDir()+"?fsync=false", "--merge-interval", "1h")
	each := *journalRecords / writers
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			var client http.Client
			defer client.CloseIdleConnections()
			for i := range each {
				resp, answer, err := b.ask(t.Context(), b.url+"/records?topic-name="+topic, request{
					method: http.MethodPost, kind: api.TextPlain, accept: api.JSON, body: []byte(fmt.Sprint(w, " ", i)), client: &client,
				})
				if err != nil || resp.StatusCode != http.StatusCreated {
					t.Errorf("record %d of writer %d: %v %.300s %v", i, w, resp, answer, err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.alive()
	t.Logf("%d records in %.0f objects, of which %.0f were deleted", writers*each, b.metric("seb_log_objects_total"), b.metric("seb_log_objects_deleted_total"))
	for range 2 {
		b.whole(topic, writers, each)
		b.restart()
	}
	b.whole(topic, writers, each)
	b.within(limit)
}

// whole reads a topic, which has the records of each writer once and in order.
func (b *broker) whole(topic string, writers, each int) {
	b.t.Helper()
	next := make([]int, writers)
	for offset := int64(0); offset < int64(writers*each); {
		list := b.read(topic, offset)
		if len(list) == 0 {
			b.t.Fatalf("no record at offset %d of %d", offset, writers*each)
		}
		for _, r := range list {
			var w, i int
			if _, err := fmt.Sscan(string(r.Value), &w, &i); err != nil || next[w] != i {
				b.t.Fatalf("offset %d: %q, want record %d of the writer (%v)", r.Offset, r.Value, next[w], err)
			}
			next[w]++
		}
		offset = list[len(list)-1].Offset + 1
	}
}
