package form

import (
	"bytes"
	"encoding/json"
)

// Property is a property of an event's data.
type Property struct {
	Path []string // members of objects, outermost first
	JSON string   // its value
}

// Document returns an object with properties in their order; nil if there are none. The first of two
// that exclude each other is in it.
func Document(list []Property) []byte {
	if len(list) == 0 {
		return nil
	}
	var root member
	for _, p := range list {
		at := &root
		for _, name := range p.Path {
			at = at.add(name)
		}
		if at.raw == "" && len(at.kids) == 0 {
			at.raw = p.JSON
		}
	}
	var b bytes.Buffer
	root.write(&b)
	return b.Bytes()
}

type member struct {
	name, raw string
	kids      []*member
}

func (m *member) add(name string) *member {
	for _, k := range m.kids {
		if k.name == name {
			return k
		}
	}
	m.kids = append(m.kids, &member{name: name})
	return m.kids[len(m.kids)-1]
}

func (m *member) write(b *bytes.Buffer) {
	if m.raw != "" || len(m.kids) == 0 {
		b.WriteString(m.raw)
		return
	}
	for i, k := range m.kids {
		b.WriteByte("{,"[min(i, 1)])
		name, _ := json.Marshal(k.name)
		b.Write(append(name, ':'))
		k.write(b)
	}
	b.WriteByte('}')
}
