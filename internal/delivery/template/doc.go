// Package template builds the bodies of webhook messages: the JSON of webhook.Firing, or the output
// of a trigger's template with variables from the matched events.
//
// Templates have the syntax of text/template and are parsed by text/template/parse. The execution
// is our own: it calls only the functions listed here, bounds its steps and its output, and treats
// a missing value as an error unless the template provides a default. text/template itself looks up
// methods by name, which keeps the linker from removing unused ones, and cannot be stopped.
package template
