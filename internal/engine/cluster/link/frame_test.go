package link

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// frames returns a frame of each kind.
func frames() [][]byte {
	run, to := cluster.Run{Node: record.ID{1}, ID: record.ID{2}}, cluster.Run{Node: record.ID{3}, ID: record.ID{4}}
	hand := cluster.Hand{ID: 8, Epoch: 7, Nonce: record.ID{5}, Pos: state.Position{Epoch: 7, Slot: 9}, PrevCRC: 10, Undrained: true}
	beat := cluster.Beat{
		From: run, Leads: true, Stands: true, Epoch: 7, Nonce: record.ID{5}, Pos: state.Position{Epoch: 7, Slot: 9}, PosNonce: record.ID{6}, Loaded: true,
		StoreOK: true, Leaving: true, OtherKey: true, Level: 6, Committed: time.UnixMicro(11),
	}
	slot := body{posEpoch: 7, slot: 9, prefix: []byte("prefix")}
	notice := body{posEpoch: 7, slot: 9}
	all := [][]byte{
		appendHello(nil, kindHello, &hello{from: run, to: to, root: []byte("root"), secrets: []byte("secrets")}),
		appendHello(nil, kindRefused, &hello{reason: "no"}),
		end(begin(nil, kindAlive), 0), slot.append(nil, kindSlot), notice.append(nil, kindNotice),
	}
	for _, m := range []cluster.Message{
		{Kind: cluster.MsgBeat, Sent: 1, Beat: beat},
		{Kind: cluster.MsgEcho, Sent: 1},
		{Kind: cluster.MsgGoodbye},
		{Kind: cluster.MsgPrepare, Hand: hand},
		{Kind: cluster.MsgReady, Hand: hand},
		{Kind: cluster.MsgTake, Hand: hand},
		{Kind: cluster.MsgForgotten},
	} {
		all = append(all, appendMessage(nil, &m))
	}
	return all
}

// TestFramesGolden: brokers of different versions have links, so the bytes of a released version never
// change.
func TestFramesGolden(t *testing.T) {
	var got strings.Builder
	for _, f := range frames() {
		got.WriteString(hex.EncodeToString(f) + "\n")
	}
	file := filepath.Join("testdata", "frames.hex")
	if want, err := os.ReadFile(file); err != nil || string(want) != got.String() {
		t.Errorf("%s differs (%v); the frames are now\n%s", file, err, got.String())
	}
}

// FuzzFrame: no bytes make the decoder fail in another way than with an error, and what it decodes can
// be sent on.
func FuzzFrame(f *testing.F) {
	for _, b := range frames() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = readHello(bytes.NewReader(b))
		k, body, err := readFrame(bytes.NewReader(b), frameMax)
		if err != nil {
			return
		}
		from := cluster.Run{Node: record.ID{1}, ID: record.ID{2}}
		ev := Event{From: from}
		if says, err := decodeFrame(k, body, &ev); err != nil || !says || ev.Kind != Received {
			return
		}
		again := Event{From: from}
		k, body, err = readFrame(bytes.NewReader(appendMessage(nil, &ev.Message)), frameMax)
		must.NoError(t, err)
		if _, err = decodeFrame(k, body, &again); err != nil || !reflect.DeepEqual(again, ev) {
			t.Fatalf("%+v became %+v, %v", ev, again, err)
		}
	})
}
