// The versions of the libraries in this binary.

package sut

import (
	"runtime/debug"
	"slices"
)

// LinkedVersion returns a module's path and version, or its path alone if the binary has no version
// (test binaries, for example).
func LinkedVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return path
	}
	if info.Main.Path == path {
		return path + " " + info.Main.Version
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == path })
	if i < 0 {
		return path
	}
	return path + " " + info.Deps[i].Version
}
