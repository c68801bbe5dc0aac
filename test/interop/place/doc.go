// Package place is where clients of other languages meet a broker: a real `seb serve` on a bucket folder, with a Kafka
// address that stays the same when the process is killed and started again, and the cache folder of this repository that
// clients are installed into.
//
// A test that needs it begins with Wanted, starts a broker with Serve, and prints one line for each thing that it has
// checked with Report. Each test package that uses it calls Main in its TestMain.
package place
