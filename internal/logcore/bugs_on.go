//go:build plantedbugs

package logcore

var planted plantedBug

// Plant switches one planted bug on ("" none) for every core of this process. Only in a build with the tag plantedbugs,
// only for tests of the tests.
func Plant(name string) {
	planted = plantedBug(name)
}

func bug(b plantedBug) bool { return planted == b }
