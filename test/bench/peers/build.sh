#!/bin/bash
# Builds the peers of the benchmark: build.sh FOLDER [streams] [flink] [rdkafka]
# What each needs comes from the registries that mvn and pip are set up for. FOLDER/NAME holds a peer once it is whole.
set -euo pipefail

# The wheel that brings librdkafka, here 2.16.0: Debian's is years older.
CONFLUENT=2.16.1
COPY=org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies

here=$(cd "$(dirname "$0")" && pwd)
into=${1:?usage: build.sh FOLDER [streams] [flink] [rdkafka]}
shift
mkdir -p "$into"
into=$(cd "$into" && pwd)
work=$(mktemp -d "$into/.part-XXXXXX")
trap 'rm -rf "$work"' EXIT

# need TOOL PACKAGE ends with the name of the Debian package if there is no such tool.
need() {
  command -v "$1" >/dev/null || { echo "make peers needs $1 (Debian: $2)" >&2; exit 1; }
}

# quietly shows what a command says only if it fails: mvn and javac talk of things that cannot be turned off.
quietly() {
  "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
}

java_peer() {
  need java openjdk-17-jdk-headless
  need javac openjdk-17-jdk-headless
  need jar openjdk-17-jdk-headless
  need mvn maven
  quietly mvn -q -B -f "$here/$1/pom.xml" "$COPY" -DincludeScope=runtime -DoutputDirectory="$work/$1"
  mkdir "$work/$1.classes"
  quietly javac --release 17 -cp "$work/$1/*" -d "$work/$1.classes" "$here/$1"/src/main/java/peers/*.java
  jar --create --file "$work/$1/$1-1.jar" -C "$work/$1.classes" .
}

c_peer() {
  need cc gcc
  need python3 python3
  python3 -m pip --version >/dev/null || { echo "make peers needs pip (Debian: python3-pip)" >&2; exit 1; }
  echo '#include <librdkafka/rdkafka.h>' | cc -fsyntax-only -x c - 2>/dev/null ||
    { echo "make peers needs librdkafka/rdkafka.h (Debian: librdkafka-dev)" >&2; exit 1; }
  python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work/wheel" "confluent-kafka==$CONFLUENT"
  python3 -m zipfile -e "$work"/wheel/confluent_kafka-*.whl "$work/wheel"
  mkdir "$work/rdkafka"
  cp "$work"/wheel/confluent_kafka.libs/librdkafka-*.so.1 "$work/rdkafka/"
  # The header may be older than the library: the ABI of librdkafka.so.1 only grows.
  cc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -o "$work/rdkafka/rdcopy" "$here/rdkafka/rdcopy.c" \
    "$work"/rdkafka/librdkafka-*.so.1 -Wl,-rpath,'$ORIGIN' -Wl,--allow-shlib-undefined
}

for peer in ${*:-streams flink rdkafka}; do
  case $peer in
  streams | flink) java_peer "$peer" ;;
  rdkafka) c_peer ;;
  *) echo "unknown peer $peer: known are streams, flink, rdkafka" >&2; exit 2 ;;
  esac
  rm -rf "${into:?}/$peer"
  mv "$work/$peer" "$into/$peer"
  echo "built $into/$peer"
done
