package cache

// kept is an object of Keep that waits to be written.
type kept struct {
	key   string
	parts [][]byte
	done  func()
	fill  *fill
}

// Keep caches an object that was just stored under key; parts are all its bytes in order. The cache
// owns them until it calls done, exactly once and from any goroutine, possibly before Keep returns.
// Keep never waits: if the disk is too slow, or the object is not cacheable, it calls done at once.
// It must only be called with the bytes that are in the bucket.
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

// writeKept writes the objects of Keep until Close.
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

// start returns the first bytes of an object for Admit.
func start(parts [][]byte) []byte {
	var s []byte
	for _, p := range cut(parts, 0, startBytes) {
		s = append(s, p...)
	}
	return s
}

// cut returns the bytes from one position to another without copying.
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
