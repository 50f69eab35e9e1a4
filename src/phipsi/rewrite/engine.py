from dataclasses import dataclass
@dataclass
class Rewriting:
    expressions: tuple
def rewrite(request, *, armature):
    return Rewriting(request.expressions)
