package config

import "iter"

// EnvironmentVariables returns the variables of all settings, with their keys.
func EnvironmentVariables() iter.Seq2[string, string] {
	return func(yield func(name, key string) bool) {
		for _, s := range allSettings() {
			for _, name := range s.env {
				if name != "" && !yield(name, s.key) {
					return
				}
			}
		}
	}
}

// DefaultTexts returns the default of each setting in its tag.
func DefaultTexts() map[string]string {
	texts := map[string]string{}
	for _, s := range allSettings() {
		texts[s.key] = s.field.Tag.Get("default")
	}
	return texts
}
