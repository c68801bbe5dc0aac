package trigger

import (
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// NamesMax bounds the remembered event names of a topic, which are for suggestions.
const NamesMax = 10_000

// namesMemoryMax bounds the names in memory, of all topics, in bytes.
const namesMemoryMax = 256 << 10

// nameCache holds names that are in the file.
type nameCache struct {
	known map[topicName]bool
	count map[record.ID]int // number of names in the file, of the topics of known
	bytes int
}

type topicName struct {
	topic record.ID
	name  string
}

// rememberName remembers an event name of a topic.
func (w *worker) rememberName(tx *store.Tx, topic record.ID, name string) error {
	c := &w.names
	k := topicName{topic, name}
	if c.known[k] {
		return nil
	}
	if c.known == nil || c.bytes > namesMemoryMax {
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
