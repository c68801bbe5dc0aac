// Package httpconn is what every HTTP request goes through before a handler has it: the limit on connections
// (Connections), the key (Key), the parameters (Params), the form of the answer (Negotiate), the body (Body, Small, JSON)
// and, for large reads, the gate (Gate). Pace keeps both directions of a connection moving, and Stops ends waits when the
// server does. It knows no broker. Faults are problems of package api that name the parameter, header or member at fault.
package httpconn
