// Package pressure tests a built broker with little memory: more clients than fit, a slow store,
// connections that come and go. It contains only tests.
package pressure
