// Package hostile makes what hostile clients send, for the tests of whoever has to withstand it.
package hostile
