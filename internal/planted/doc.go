// Package planted switches on mistakes that brokers of this kind were shipped with, to test that the tests find them. In
// a build without the tag plantedbugs nothing can be switched on, and the compiler drops the code behind each switch.
package planted
