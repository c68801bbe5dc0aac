// Package template makes the bodies of webhook messages: the JSON of webhook.Firing, or what a trigger's template makes with
// variables from the events that made it fire.
//
// The syntax of templates is that of text/template, read by text/template/parse. What executes it is our own: it calls
// nothing but the functions listed here, counts its steps and its output, and takes what is missing for an error unless
// the template says what to write instead. text/template itself looks methods up by name, which keeps the linker from
// leaving out any, and can not be stopped.
package template
