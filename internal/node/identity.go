package node

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// identityFile has the id of the data folder. Without it, the next start has another id.
const identityFile = "node"

// identity is the content of identityFile.
type identity struct {
	ID  string `json:"id"`
	Led bool   `json:"led,omitempty"` // a broker with this folder has led a log
}

// identify returns the id of the data folder. It draws one at the first start, and if the file is
// damaged: the broker then counts as a new one. A full disk must not prevent a start.
func (f *folder) identify(log *slog.Logger) (id record.ID, led bool) {
	b, err := os.ReadFile(filepath.Join(f.dir, identityFile))
	var known identity
	if err == nil {
		err = json.Unmarshal(b, &known)
	}
	if err == nil {
		id, err = record.ParseID(known.ID)
	}
	if err == nil {
		return id, known.Led
	}
	if !errors.Is(err, fs.ErrNotExist) {
		log.Warn("id of the data folder not read: this broker has a new one", "file", filepath.Join(f.dir, identityFile), "err", err)
	}
	id = record.NewID()
	if err := f.keepIdentity(identity{ID: id.String()}); err != nil {
		log.Warn("id of the data folder not stored: the next start has another one", "err", err)
	}
	return id, false
}

func (f *folder) keepIdentity(i identity) error {
	b, err := json.Marshal(i)
	if err != nil {
		return err
	}
	file := filepath.Join(f.dir, identityFile)
	if err := os.WriteFile(file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// join calls Options.Join, and sets what it decides.
func (n *Node) join(ctx context.Context, store objstore.Store, o *Options) error {
	if o.Join == nil || o.ReadOnly || n.folder == nil {
		return nil
	}
	id, led := n.folder.identify(o.Logger)
	joined, err := o.Join(ctx, Joining{Store: store, Bucket: n.bucket, Node: id, Led: led})
	if err != nil {
		return err
	}
	o.joined = joined
	o.Standby, o.Follow = o.Standby || joined.Standby, o.Follow || joined.Follow
	if !led {
		n.id = id
	}
	return nil
}

// noteLed notes in the data folder, once, that this broker has led.
func (n *Node) noteLed(o *Options) {
	if n.id.IsZero() {
		return
	}
	note := sync.OnceFunc(func() {
		if err := n.folder.keepIdentity(identity{ID: n.id.String(), Led: true}); err != nil {
			o.Logger.Warn("leadership not noted in the data folder", "err", err)
		}
	})
	n.WhileLeading(func(context.Context) { note() })
}
