package tlsport

import (
	"os"
	"time"
)

// watched are two files that are read again when they change. The name of the second may be "".
type watched struct {
	names [2]string
	seen  [2]stamp
}

// stamp identifies the state of a file.
type stamp struct {
	size     int64
	modified time.Time
	file     any // identity of the file in the system: another file may get the same name
}

func watch(first, second string) watched {
	w := watched{names: [2]string{first, second}}
	w.seen = w.stamps()
	return w
}

// changed reports whether the files must be read: they have changed, or may have, because their last
// change is so recent that a further one would not be visible. Then again is true.
func (w *watched) changed(now time.Time) (changed, again bool) {
	found := w.stamps()
	if found != w.seen {
		w.seen = found
		return true, false
	}
	newest := found[0].modified
	if found[1].modified.After(newest) {
		newest = found[1].modified
	}
	return now.Sub(newest) <= settled, true
}

func (w *watched) stamps() (s [2]stamp) {
	for i, name := range w.names {
		if info, err := os.Stat(name); err == nil {
			s[i] = stamp{info.Size(), info.ModTime(), identity(info)}
		}
	}
	return s
}
