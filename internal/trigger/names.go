package trigger

import (
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// NamesMax is how many names of events of a topic are remembered, for suggestions.
const NamesMax = 10_000

// namesHeld is how many bytes of names are held in memory, of all topics.
const namesHeld = 256 << 10

// nameCache is names that are known to be in the file.
type nameCache struct {
	known map[topicName]bool
	count map[record.ID]int // of the topics of known: how many the file has
	bytes int
}

type topicName struct {
	topic record.ID
	name  string
}

// name remembers the names of a topic's events.
func (w *worker) name(tx *store.Tx, topic record.ID, name string) error {
	c := &w.names
	k := topicName{topic, name}
	if c.known[k] {
		return nil
	}
	if c.known == nil || c.bytes > namesHeld {
		*c = nameCache{known: map[topicName]bool{}, count: map[record.ID]int{}}
	}
	n, counted := c.count[topic]
	if !counted {
		var err error
		if n, err = tx.CountNames(topic); err != nil {
			return err
		}
	}
	c.known[k] = true
	c.bytes += nameMemory + len(name)
	c.count[topic] = n
	if n >= NamesMax {
		return nil
	}
	added, err := tx.PutName(topic, name)
	if added {
		c.count[topic]++
	}
	return err
}
