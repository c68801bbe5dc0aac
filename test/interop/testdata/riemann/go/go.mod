module riemann

go 1.26.0

require github.com/riemann/riemann-go-client v0.5.0

require (
	github.com/golang/protobuf v0.0.0-20170307001533-c9c7427a2a70 // indirect
	golang.org/x/net v0.0.0-20190206173232-65e2d4e15006 // indirect
	gopkg.in/tomb.v2 v2.0.0-20161208151619-d5d1b5820637 // indirect
)
