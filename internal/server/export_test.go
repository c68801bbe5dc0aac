package server

import "time"

// SetKafkaRetry is for tests that do not wait for 5 s.
func SetKafkaRetry(d time.Duration) { kafkaRetry = d }

// SetAwayTime is for tests that do not wait for 5 s.
func SetAwayTime(d time.Duration) { awayTime = d }

// StopTime is the longest stop.
const StopTime = stopTime
