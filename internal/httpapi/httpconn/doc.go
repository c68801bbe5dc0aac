// Package httpconn is what every HTTP request goes through before a handler has it: the limit on connections
// (Connections), the key (Key), the parameters (Params), the form of the answer (Negotiate) and the body (Body, Small,
// JSON). Pace keeps both directions of a connection moving, and Stops ends waits when the
// server does. It knows no broker. Faults are problems of package api that name the parameter, header or member at fault.
package httpconn
