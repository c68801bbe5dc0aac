package log

// FedBytes is what fed slots take until the owner has taken them.
func FedBytes(l *Log) int64 {
	l.feeds.mu.Lock()
	defer l.feeds.mu.Unlock()
	return l.feeds.bytes
}
