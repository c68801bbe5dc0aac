// Package must ends a test at an error that it does not expect.
package must

// T is a test: testing.TB or *rapid.T.
type T interface {
	Helper()           // the failure is reported at the line of the caller
	Fatal(args ...any) // ends the test
}

// NoError ends the test with the error, if there is one.
func NoError(t T, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
