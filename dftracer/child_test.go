package dftracer_test

const childVariable = "DFTRACER_TEST_CHILD"

func childMain(path string) {}
