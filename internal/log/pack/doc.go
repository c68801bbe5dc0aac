// Package pack decides what is merged into packs, and in which steps (rule R8): plan, build, store, install. It does no
// I/O; whoever performs the steps tells it what came of them.
package pack
