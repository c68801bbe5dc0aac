// Package java runs Java clients and Kafka's command line tools against `seb serve`. Folder src has the program that the tests
// compile and run, old what clients of every version can run, examples the programs that docs/guide/kafka.md shows. Connect and
// MirrorMaker 2 run as they come, and Kafka Streams runs the program in folder streams. Jars come from Maven Central into the cache
// folder, as pom.xml and the other files of XML name them; Java and Maven must be there.
package java
