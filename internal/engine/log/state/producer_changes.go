package state

// producerChanges is what frozen slots that are not committed change of the producers of a committed
// state. A catalog has it instead of a copy of all producers.
type producerChanges struct {
	committed *State
	batches   map[ProducerKey]producerChange // by the newest slot that changes a producer
	forgets   []slotForget                   // in the order of the log
	held      map[uint32]int                 // known producers by owner; nil: not counted yet
	// found is the answer of the last lookup, since an append looks its producer up several times.
	found struct {
		ok    bool
		key   ProducerKey
		p     Producer
		known bool
	}
}

type producerChange struct {
	Producer
	slot      uint64
	forgotten bool
}

// slotForget is a ProducersForget record of a slot.
type slotForget struct {
	Record
	slot uint64
	held map[ProducerKey]bool // not forgotten: their transactions are open
}

func changesOf(committed *State) *producerChanges {
	return &producerChanges{committed: committed, batches: map[ProducerKey]producerChange{}}
}

func (c *producerChanges) producer(k ProducerKey) (Producer, bool) {
	f := &c.found
	if !f.ok || f.key != k {
		f.ok, f.key = true, k
		f.p, f.known = c.lookup(k)
	}
	return f.p, f.known
}

func (c *producerChanges) lookup(k ProducerKey) (Producer, bool) {
	e, changed := c.batches[k]
	p, known := e.Producer, changed && !e.forgotten
	if !changed {
		p, known = c.committed.Producer(k)
		known = known && !c.forgotten(k, &p)
	}
	if !known {
		p = Producer{}
	}
	return p, known
}

// forgotten reports whether a producer of the committed state is to be forgotten.
func (c *producerChanges) forgotten(k ProducerKey, p *Producer) bool {
	for i := range c.forgets {
		if c.forgets[i].forgets(p) && !c.forgets[i].held[k] {
			return true
		}
	}
	return false
}

// each calls f for every producer that the catalog s knows.
func (c *producerChanges) each(s *State, f func(ProducerKey, *Producer)) {
	for id, t := range c.committed.topics { //tidy:unordered as below
		if s.topics[id] == nil {
			continue // a frozen slot has deleted it
		}
		t.eachProducer(func(k ProducerKey, p *Producer) {
			if _, changed := c.batches[k]; !changed && !c.forgotten(k, p) {
				f(k, p)
			}
		})
	}
	for k, e := range c.batches { //tidy:unordered the callers count
		if !e.forgotten {
			f(k, &e.Producer)
		}
	}
}

// forget applies a ProducersForget record of the next slot to the catalog s.
func (c *producerChanges) forget(s *State, r *Record) {
	c.found.ok = false
	var gone []ProducerKey
	var held map[ProducerKey]bool
	c.each(s, func(k ProducerKey, p *Producer) {
		if r.forgets(p) && s.holds(k) {
			if held == nil {
				held = map[ProducerKey]bool{}
			}
			held[k] = true
			return
		}
		if r.forgets(p) {
			s.countProducer(p, -1)
			gone = append(gone, k)
		}
	})
	for _, k := range gone {
		if e, changed := c.batches[k]; changed {
			c.batches[k] = producerChange{e.Producer, s.Pos.Slot, true}
		}
	}
	c.forgets = append(c.forgets, slotForget{*r, s.Pos.Slot, held})
}

// forgetTopic drops the producers of a topic that the next slot deletes.
func (c *producerChanges) forgetTopic(s *State, topic *Topic) {
	c.found.ok = false
	if t := c.committed.topics[topic.ID]; t != nil {
		t.eachProducer(func(k ProducerKey, p *Producer) {
			if _, changed := c.batches[k]; !changed && !c.forgotten(k, p) {
				s.countProducer(p, -1)
			}
		})
	}
	for k, e := range c.batches {
		if k.Topic != topic.ID {
			continue
		}
		if delete(c.batches, k); !e.forgotten {
			s.countProducer(&e.Producer, -1)
		}
	}
}

// Committed tells a catalog that the committed state has applied a slot with these records, so that
// the catalog need not keep its changes of producers.
func (s *State) Committed(slot uint64, records []Record) {
	c := s.changes
	c.found.ok = false
	for i := range records {
		switch r := &records[i]; r.Kind {
		case ProducerAppend:
			k := ProducerKey{PartitionID{r.Topic, r.Partition}, r.Producer.ID}
			if e, changed := c.batches[k]; changed && e.slot == slot {
				delete(c.batches, k)
			}
		case TimeReset:
			c.held = nil // it has made producers older
		case ProducersForget:
			c.forgets = c.forgets[1:]
			for k, e := range c.batches {
				if e.forgotten && e.slot == slot {
					delete(c.batches, k)
				}
			}
		}
	}
	if c.held == nil { // below LevelProducers the committed state may have forgotten an eighth
		s.tally.producers = c.committed.tally.producers + len(c.batches)
	}
}

// ProducersHeld is the number of producers that a catalog knows of an owner.
func (s *State) ProducersHeld(owner uint32) int {
	c := s.changes
	if c.held == nil {
		c.held = map[uint32]int{}
		s.tally.producers = 0
		c.each(s, func(_ ProducerKey, p *Producer) { s.countProducer(p, 1) })
	}
	return c.held[owner]
}

// ProducersBefore returns the times, in µs and in no order, of the newest batches that are older than a
// time, by the owners of their producers, except those whose transactions are open. It visits all producers.
func (s *State) ProducersBefore(before int64) map[uint32][]int64 {
	old := map[uint32][]int64{}
	s.eachProducer(func(k ProducerKey, p *Producer) {
		if p.LastTime < before && !s.holds(k) {
			old[p.Owner] = append(old[p.Owner], p.LastTime)
		}
	})
	return old
}
