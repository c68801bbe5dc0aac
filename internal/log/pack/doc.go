// Package pack decides what is merged into packs, and in which steps (rule R8): plan, build, store,
// install. It does no I/O; its caller performs the steps and reports the results.
package pack
