package cache

// kept is an object handed over to be written.
type kept struct {
	key   string
	parts [][]byte
	done  func()
	fill  *fill
}

// Keep caches an object that was just stored under key: parts are all its bytes in order. They are the cache's from now
// on and must not change until it calls done, exactly once and from any goroutine, maybe before Keep returns. Keep
// itself never waits: while the disk is behind, or if the object is not to be cached, it calls done at once. It must
// only be called for bytes that are known to be those in the bucket.
func (c *Cache) Keep(key string, parts [][]byte, done func()) {
	if done == nil {
		done = func() {}
	}
	if !c.cacheable(key) || !c.admits(key, sizeOf(parts), start(parts)) || !c.enqueue(&kept{key: key, parts: parts, done: done}) {
		done()
	}
}

func (c *Cache) enqueue(k *kept) bool {
	k.fill = &fill{object: c.object(k.key), cancel: func() {}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	select {
	case c.queue <- k:
		c.filling[k.fill] = struct{}{}
		return true
	default:
		c.stats.Unkept++
		return false
	}
}

// writeKept writes what Keep took, until Close.
func (c *Cache) writeKept() {
	for k := range c.queue {
		c.writeObject(k)
		c.mu.Lock()
		delete(c.filling, k.fill)
		c.mu.Unlock()
		k.done()
	}
}

func (c *Cache) writeObject(k *kept) {
	size := sizeOf(k.parts)
	for at := int64(0); at < size; at += c.block {
		n := name{k.fill.object, uint32(at / c.block)}
		c.mu.Lock()
		skip := c.closed || k.fill.forgotten || c.index[n] != nil
		c.mu.Unlock()
		if skip {
			continue
		}
		x := content{key: k.key, name: n, size: size, parts: cut(k.parts, at, min(size, at+c.block))}
		if b := c.write(x, k.fill); b != nil {
			c.release(b)
		}
	}
}

func sizeOf(parts [][]byte) (n int64) {
	for _, p := range parts {
		n += int64(len(p))
	}
	return n
}

// start is the first bytes of an object, as Admit wants them.
func start(parts [][]byte) []byte {
	var s []byte
	for _, p := range cut(parts, 0, startBytes) {
		s = append(s, p...)
	}
	return s
}

// cut is the bytes from one position to another, without copying.
func cut(parts [][]byte, from, to int64) [][]byte {
	var out [][]byte
	for _, p := range parts {
		n := int64(len(p))
		if lo, hi := max(from, 0), min(to, n); lo < hi {
			out = append(out, p[lo:hi])
		}
		from, to = from-n, to-n
	}
	return out
}
