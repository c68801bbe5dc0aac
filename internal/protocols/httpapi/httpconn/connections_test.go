package httpconn

import "testing"

func TestOpenIsTheLeastForServed(t *testing.T) {
	for n := 1; n < 5000; n++ {
		if open := Open(n); Served(open) < n || n > 1 && Served(open-1) >= n {
			t.Fatalf("Served(%d) is %d, one open connection less serves %d; want %d", open, Served(open), Served(open-1), n)
		}
	}
}
