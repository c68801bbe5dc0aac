// Package queues tests queues from outside: workers of a real broker, which is killed.
package queues
