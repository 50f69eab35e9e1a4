#!/usr/bin/env bash
# Writes src/phipsi/pages/assets/three.min.js: the classes of three.js that scene.js uses, as one classic
# script that defines `globalThis.THREE`. Needs npm and the network; users need neither.
#
#     scripts/bundle_three.sh [folder for npm]
set -euo pipefail
THREE=0.187.0 ESBUILD=0.28.2
assets="$(cd "$(dirname "$0")/.." && pwd)/src/phipsi/pages/assets"
folder="${1:-$(mktemp -d)}"
cd "$folder"
npm install --no-audit --no-fund --no-save --ignore-scripts "three@$THREE" "esbuild@$ESBUILD" >/dev/null
names=(
  ACESFilmicToneMapping AmbientLight Box3 BoxGeometry BufferAttribute BufferGeometry CanvasTexture Color ConeGeometry
  CylinderGeometry DirectionalLight DoubleSide Float32BufferAttribute Group HemisphereLight InstancedMesh LatheGeometry
  Line LineBasicMaterial LineSegments MathUtils Matrix3 Matrix4 Mesh MeshBasicMaterial MeshPhongMaterial
  MeshStandardMaterial NoToneMapping Object3D OrthographicCamera PCFShadowMap PCFSoftShadowMap PerspectiveCamera Plane PlaneGeometry
  Points PointsMaterial Quaternion Raycaster Scene ShaderMaterial ShadowMaterial Sphere SphereGeometry Sprite
  SpriteMaterial SRGBColorSpace Uniform UniformsLib UniformsUtils ShaderChunk Vector2 Vector3 Vector4 WebGLRenderer
)
echo "import { $(IFS=,; echo "${names[*]}") } from 'three';" > entry.js
echo "globalThis.THREE = { REVISION: '$THREE', $(IFS=,; echo "${names[*]}") };" >> entry.js
node_modules/.bin/esbuild entry.js --bundle --minify --format=iife --target=es2020 --legal-comments=none \
  --charset=utf8 --log-level=warning --outfile=bundle.js
{ echo "/*! three.js $THREE, MIT licence, Copyright 2010-2026 three.js authors; see three.LICENSE */"; cat bundle.js; } \
  > "$assets/three.min.js"
cp node_modules/three/LICENSE "$assets/three.LICENSE"
wc -c "$assets/three.min.js"
