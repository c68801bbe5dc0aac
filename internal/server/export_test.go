package server

import "time"

// SetKafkaRetry replaces the interval of 5 s in tests.
func SetKafkaRetry(d time.Duration) { kafkaRetry = d }

// SetStoreTimeout replaces the timeout of 5 s in tests.
func SetStoreTimeout(d time.Duration) { storeTimeout = d }

// StopTime bounds a stop.
const StopTime = stopTime
