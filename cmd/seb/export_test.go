package main

// Main is main, for processes of the tests.
var Main = main
